#!/usr/bin/env python3
"""Writes scikit-learn's digits for the C++ program: of each image 64 bytes, 0 to 16, row by row,
and one with its digit; in a fixed random order, so that the last ones can be held out."""

import random
import sys
from pathlib import Path

from sklearn.datasets import load_digits


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    rows = [bytes([*map(int, image), int(label)]) for image, label in zip(images, labels)]
    random.Random(1).shuffle(rows)
    Path(sys.argv[1]).write_bytes(b"".join(rows))


if __name__ == "__main__":
    main()
