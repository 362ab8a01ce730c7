"""The command `sm121probe`."""

import os
import signal
import sys


def program() -> str:
    """Return the path of the command, which it runs again for work that may crash."""
    import sysconfig

    here = os.path.join(sysconfig.get_path("scripts"), "sm121probe")
    return here if os.access(here, os.X_OK) else _script()


# The script passes the name by which it was called as an argument.
_AS_NAMED = "import sys; sys.argv.pop(0); from sm121probe.__main__ import main; sys.exit(main())"
_made = None


def _script() -> str:
    """Create a script that runs the command, for use of the package without installation."""
    import atexit
    import shlex
    import tempfile

    global _made
    if _made is None or not os.path.exists(_made):
        above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        descriptor, _made = tempfile.mkstemp(prefix="sm121probe-")
        with open(descriptor, "w", encoding="utf-8") as file:
            path = f"{shlex.quote(above)}${{PYTHONPATH:+:$PYTHONPATH}}"
            file.write(f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.quote(sys.executable)} -c {shlex.quote(_AS_NAMED)} "$0" "$@"\n')
        os.chmod(_made, 0o700)
        atexit.register(lambda path=_made, owner=os.getpid(): os.getpid() == owner and os.unlink(path))
    return _made


def main() -> int:
    """Run the command line of this process and return the exit code."""
    from . import _native

    # An interrupt ends the command immediately, like any other command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Under `exec`, other programs run the command as their ptxas.
    name = "ptxas" if os.path.basename(sys.argv[0]) == "ptxas" else "sm121probe"
    here = os.path.dirname(os.path.abspath(__file__))
    return _native.run_command([name, *sys.argv[1:]], program(), here)


if __name__ == "__main__":
    sys.exit(main())
