"""The network of the sandbox: a proxy outside of it, and what leads a command's connections there."""
