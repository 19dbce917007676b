"""Does a Ray cluster answer at an address? Prints why not, and exits with 1.

It is run as a process of its own: where nothing answers, Ray tries for minutes, writes warnings past
Python's logging, and may abort the whole process. This module loads nothing of ours.
"""

import socket
import sys

SECONDS = 8.0  # longer than a live cluster takes, also on a busy machine


def listens(address: str, timeout: float) -> str | None:
    """Why nothing takes a connection at ``address`` ('host:port'); None where something does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
    except OSError as error:
        return f"nothing answers there: {error.strerror or error}"
    return None


def reason(address: str) -> str | None:
    """Why one cannot connect to ``address`` ('host:port' or 'auto'); None where one can."""
    if address != "auto" and (silent := listens(address, SECONDS)):
        return silent
    import ray

    try:
        ray.init(address=address, log_to_driver=False)
        ray.shutdown()
    except Exception as error:
        return " ".join(str(error).split())[:300]
    return None


if __name__ == "__main__":
    if found := reason(sys.argv[1]):
        print(found)
        sys.exit(1)
