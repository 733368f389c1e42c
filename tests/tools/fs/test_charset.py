"""Everyday texts in the encodings from before UTF-8: each is shown as it was written, and by Read as by Edit."""

import time

import pytest

from ostler.tools.files.read import Read
from ostler.tools.files.reading import line_reader
from ostler.tools.fs.encoding import PIECE, Encoding, decode_bytes, detect_encoding, split_pieces
from ostler.tools.fs.text_file import load
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ = Read()

SAMPLES = [
    ("latin-1", "Müller\nJürgen\nGünther\nKöln\nDüsseldorf\nLübeck\nWürzburg\nTübingen\n"),
    ("latin-1", "Müller\nJürgen\nGünther\n"),
    ("latin-1", "# Größe ändern\n/* für alle Schlüssel prüfen, ob gültig */\n// zurück zum Anfang, später löschen\n"),
    ("latin-1", "10 µm\n20 °C\n30 ±5 µs\n½ Größe, 5 m²\n100 µF ±10 %\n"),
    ("latin-1", "não é possível\nação concluída\nusuário inválido\nsenha não é válida\n"),
    ("latin-1", "Ação\nCoração\nSão Paulo\nJoão\nAvô\nAvó\nPão\nMãe\nIrmã\nLição\n"),
    ("latin-1", "perché è così\npiù città\nla verità è già lì\nà è ì ò ù\n"),
    ("latin-1", "L'élève a été très étonné par la forêt où il était né.\nÇa va être drôle à Noël: garçon, août.\n"),
    ("latin-1", "café naïve résumé déjà vu façade à la carte crème brûlée\n"),
    ("latin-1", "El niño comió una manzana en el jardín.\n¿Mañana será otro día? ¡Qué bueno!\n"),
    ("latin-1", "Räksmörgås är gott på våren.\nÅsa köpte några äpplen och öl i Malmö.\n"),
    ("latin-1", "rødgrød med fløde\nblåbærgrød\næøå ÆØÅ\n"),
    ("latin-1", "Hyvää päivää, mitä kuuluu? Tänään on lämmintä ja yöllä sää.\n"),
    ("latin-1", "geïnd coördinatie\nreünie één ideeën\npatiënt België\nfinanciële\n"),
    ("latin-1", "Þetta er íslenska\nþað er gott veður í dag\nég á hús\n"),
    ("latin-1", "Müller; François; Núñez; Åse; Øystein; João\nJosé; Zoë; Günther; André\n"),
    ("cp1252", "“Smart quotes” — and a dash… it’s €5, isn’t it? “Yes” – “No”\n"),
    ("cp1252", "Preis: 5 € – „schön“ für Jürgen’s Straße… Änderung größer\n"),
    ("cp1252", "L’été, c’est « très » drôle… œuvre, cœur, sœur — élève à l’école\n"),
    ("cp1250", "Zażółć gęślą jaźń. Wszystkie książki są już na półce, a dziś będzie ciąg dalszy.\n"),
    ("cp1250", "Otwórz plik\nPowrót\nUsuń\nWyjście\nBłąd\nPomóż mi\nCofnij\nŻółty\n"),
    ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy.\nDnes večer půjdeme do města, že ano?\n"),
    ("iso8859_2", "Zażółć gęślą jaźń. Wszystkie książki są już na półce, a dziś będzie ciąg dalszy.\n"),
    ("cp1251", "Привет, мир! Это обычный текст на русском языке, который нужно прочитать.\n"),
    ("cp1251", "Привет\nмир\n"),
    ("koi8_r", "Привет, мир! Это обычный текст на русском языке, который нужно прочитать.\n"),
    ("cp866", "Привет, мир! Это обычный текст на русском языке, который нужно прочитать.\n"),
    ("iso8859_5", "Привет, мир! Это обычный текст на русском языке, который нужно прочитать.\n"),
    ("cp850", "Die Straße ist schön, und die Vögel zwitschern über den Dächern.\nFür große Äpfel.\n"),
    ("cp850", "L'élève a été très étonné par la forêt où il était né.\nÇa va être drôle à Noël.\n"),
    ("cp1253", "Καλημέρα κόσμε! Αυτό είναι ένα απλό κείμενο στα ελληνικά για δοκιμή.\n"),
    ("cp1254", "Bugün hava çok güzel, öğleden sonra dışarı çıkıp şehirde gezeceğiz. Işık şöyle.\n"),
    ("cp932", "これは日本語の文章です。今日は天気がいいので、公園へ行きましょう。\n"),
    ("euc_jp", "これは日本語の文章です。今日は天気がいいので、公園へ行きましょう。\n"),
    ("gbk", "这是一个中文文本文件，用来测试编码的检测。今天天气很好，我们去公园吧。\n"),
    ("big5", "這是一個中文文字檔案，用來測試編碼的偵測。今天天氣很好，我們去公園吧。\n"),
    ("euc_kr", "이것은 한국어 텍스트 파일입니다. 오늘은 날씨가 좋으니 공원에 갑시다.\n"),
]


@try_each("times", [1, 40])
@try_each(("codec", "text"), SAMPLES)
def test_an_everyday_text_is_read_in_the_encoding_that_it_is_in(codec: str, text: str, times: int) -> None:
    for written in (text * times, (text * times).replace("\n", "\r\n")):
        assert decode_bytes(written.encode(codec))[0] == written


JAPANESE = "これは日本語の文章です。今日は天気がいいので、公園へ行きましょう。\n"


# More than Read keeps of a file, which is 8 MB: all but the first have as much more than one.
@pytest.mark.parametrize(
    ("start", "part", "count", "end"),
    [
        ("größe\n".encode() * 10 + b"stray \xff\n", "zeile ü\n".encode(), 1_000_000, b""),
        ("größe\n".encode("cp1252") * 10, b"plain\n", 250_000, b""),
        (b"", JAPANESE.encode("cp932"), 25_000, b""),
        ("größe\n".encode(), b"plain\n", 250_000, JAPANESE.encode("cp932") * 10),
        ("größe\n".encode("utf-8-sig"), b"w\xfcrld\n", 1, b""),
        ("größe\n".encode(), "漢".encode(), 400_000, b"\xff"),
    ],
    ids=["a log", "western", "japanese", "changing", "marked", "long line"],
)
async def test_read_shows_what_edit_finds(
    session: Session, monkeypatch: pytest.MonkeyPatch, start: bytes, part: bytes, count: int, end: bytes
) -> None:
    if count < 1_000_000:
        monkeypatch.setattr(line_reader, "_MAX_KEPT_BYTES", 1024 * 1024)
    path = session.folder / "a.txt"
    path.write_bytes(start + part * count + end)
    shown = (await session.expect_result(READ, file_path=str(path), limit=12)).output.content
    found = load(str(path)).text.split("\n")[:12]
    assert [line[:1900] for line in shown.split("\n")] == [line[:1900] for line in found[: len(shown.split("\n"))]]


@try_each("codec", ["cp932", "gb18030", "cp949", "utf-8", "utf-16-le", "cp1252"])
def test_a_text_in_pieces_is_the_text(codec: str) -> None:
    text = {"cp1252": "grün\n", "gb18030": "这是一个中文\n", "cp949": "이것은 한국어\n"}.get(codec, JAPANESE) * 50_000
    data, encoding = text.encode(codec), Encoding(codec)
    assert encoding.decode(data) == text
    assert encoding.encode(text) == data


def test_no_step_of_a_long_text_in_another_encoding_keeps_others_waiting() -> None:
    data = JAPANESE.encode("cp932") * 120_000
    steps = Encoding("cp932").decode_pieces(split_pieces(data))
    assert max(len(piece) for _, piece in steps) <= PIECE + 1
    began = time.thread_time()
    assert detect_encoding(lambda: split_pieces(data)).codec == "cp932"
    # Whether it is UTF-8 with some stray bytes is clear after the first piece: 3 s, and more, when all were counted.
    assert time.thread_time() - began < 3
