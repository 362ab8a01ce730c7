"""The command `sm121probe`."""

import os
import signal
import sys


def program():
    """The path of the command, which it starts again for work that may crash."""
    import shutil
    import sysconfig

    here = os.path.join(sysconfig.get_path("scripts"), "sm121probe")
    found = here if os.access(here, os.X_OK) else shutil.which("sm121probe")
    return found or os.path.abspath(sys.argv[0])


def main():
    """Run the command line of this process; returns the exit code."""
    from . import _native

    # An interrupt ends the command at once, as it ends every other command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command(["sm121probe", *sys.argv[1:]], program())


if __name__ == "__main__":
    sys.exit(main())
