#!/usr/bin/env python3
"""Writes a problem or a solution for KernelBench's judges whose parameters are drawn anew, and whose inputs
are scaled.

    python redrawn.py FILE [--scale 3] > NEW_FILE

A judge draws the parameters of the problem and of the solution from the same seed. The generated files draw
all parameters again, after the constructor and in the same order. Parameters such as `scale` of problem 85
are then no longer all ones.
"""

import argparse
import pathlib
import sys

BEHIND = '''

def _redraw(kind):
    first = kind.__init__

    def initialise(self, *arguments, **named):
        first(self, *arguments, **named)
        for value in self.parameters():
            torch.nn.init.normal_(value, std=0.5)

    kind.__init__ = initialise


_redraw({name})
'''

SCALED = '''

def _scaled(draw):
    return lambda: [{scale} * x for x in draw()]


get_inputs = _scaled(get_inputs)
'''


def redrawn(text, scale):
    """The modified text of a problem or solution file."""
    is_problem = "class Model(" in text
    text += BEHIND.format(name="Model" if is_problem else "ModelNew")
    return text + SCALED.format(scale=scale) if is_problem else text


def main():
    """Reads one file and writes the other."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("file", type=pathlib.Path)
    arguments.add_argument("--scale", type=float, default=1.0)
    options = arguments.parse_args()
    sys.stdout.write(redrawn(options.file.read_text(), options.scale))


if __name__ == "__main__":
    main()
