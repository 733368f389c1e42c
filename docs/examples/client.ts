// A client of ostler in TypeScript, without dependencies: asks for one turn, shows it as it comes, and answers what is asked.
//   node docs/examples/client.ts FOLDER "read README.md then run touch made"      (Node 22.18 or newer runs it as it is)
import { readFileSync } from "node:fs";
import type { AnyEvent, Ask, AskResolve, Methods, Session } from "../ostler.d.ts";

const home = process.env.OSTLER_HOME ?? `${process.env.HOME}/.local/share/ostler`;
const where = () => JSON.parse(readFileSync(`${home}/daemon.json`, "utf8")) as { url: string };
const headers = { Authorization: `Bearer ${readFileSync(`${home}/token`, "utf8").trim()}`, "Content-Type": "application/json" };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await (await fetch(`${where().url}/rpc`, { method: "POST", headers, body })).json();
  if (answer.error) throw new Error(`${method}: ${answer.error.message} (${answer.error.data?.code ?? answer.error.code})`);
  return answer.result;
}

// Every event after a cursor, over lost connections and restarts of the daemon: each stored one comes once.
async function* follow(session: Session): AsyncGenerator<AnyEvent> {
  let cursor: number | null = session.cursor;
  for (let wait = 100; ; wait = Math.min(wait * 2, 5000)) {
    try {
      const url = `${where().url}/events?session=${session.id}&after=${cursor}`;
      const response = await fetch(url, { headers });
      if (response.status === 401 || response.status === 404) throw new TypeError(`/events: ${response.status}`);
      const decoder = new TextDecoder();
      let unread = "";
      for await (const chunk of response.body ?? []) {
        wait = 100;
        const frames = (unread + decoder.decode(chunk, { stream: true })).split("\n\n");
        unread = frames.pop() ?? "";
        for (const frame of frames) {
          const data = frame.split("\n").find((line) => line.startsWith("data: "));
          if (data === undefined) continue; // a comment that keeps proxies awake
          const event = JSON.parse(data.slice(6)) as AnyEvent;
          cursor = event.cursor ?? cursor;
          yield event;
        }
      }
    } catch (error) {
      console.error(`The stream broke (${error}); going on after ${cursor}.`);
    }
    await pause(wait);
  }
}

function decide(ask: Ask): AskResolve["answer"] {
  if (ask.kind !== "permission") return { choice: ask.choices.includes("decline") ? "decline" : "restrict" };
  return ask.destructive ? { choice: "deny", message: "not in this example" } : { choice: "allow" };
}

const [folder, input] = process.argv.slice(2);
const session = await call("session/create", { cwd: folder, idempotency_key: crypto.randomUUID() });
const turn = await call("turn/start", { session_id: session.id, input });
for await (const event of follow(session)) {
  if (event.type === "message.delta" && event.data.kind === "text") process.stdout.write(event.data.text);
  if (event.type === "tool.started") console.log(`\n● ${event.data.call.summary}`);
  if (event.type === "ask.opened") await call("ask/resolve", { ask_id: event.data.ask.id, answer: decide(event.data.ask) });
  if (event.type === "turn.ended" && event.data.turn.id === turn.id) {
    console.log(`\n${event.data.turn.reason}: ${event.data.turn.tool_calls} calls`);
    break;
  }
}
