"""The library behind ``import kbnav``: what another program uses."""
