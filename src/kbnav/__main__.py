"""``python -m kbnav`` is the same as ``kbnav``."""

from kbnav.apps.cli import main

if __name__ == "__main__":
    main()
