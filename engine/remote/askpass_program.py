"""What `ssh` starts to ask a question: passes it to the Traindeck that started `ssh`.

It needs the standard library only, and runs as a file of its own.
"""

from __future__ import annotations

import os
import socket
import sys

SOCKET_VARIABLE = "TRAINDECK_ASKPASS"


def main() -> int:
    """Print the answer to the question in the arguments; return 1 if there is none."""
    question = " ".join(" ".join(sys.argv[1:]).split())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect(os.environ[SOCKET_VARIABLE])
        asking.sendall(question.encode() + b"\n")
        answer = b""
        while more := asking.recv(4096):
            answer += more
    if not answer:
        return 1
    sys.stdout.buffer.write(answer[1:] + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
