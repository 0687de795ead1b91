"""The drawings of ``docs/how/kernels_on_a_cpu.md``."""

from __future__ import annotations

import numpy as np

from .canvas import ACCENT, GREY, GROUPS, ORANGE, PALE, SMALL, WHITE, Canvas, drawing


@drawing(44)
def fibers(c: Canvas) -> None:
    """Threads of a block run as fibers in a random order between barriers; canaries surround each array."""
    order = np.random.default_rng(7)
    c.heading(1.4, "one thread block on one thread of the CPU")
    for thread in range(4):
        c.text(1, 5.2 + 3.4 * thread, f"thread {thread}", align="left")
        c.line((9, 48), (5.2 + 3.4 * thread,) * 2, PALE, 0.6)
    x = 9.5
    for segment in range(2):
        for thread in order.permutation(4):
            c.box(x, 3.9 + 3.4 * thread, 4, 2.6, fill=GROUPS[thread])
            x += 4.2
        c.line((x + 0.6,) * 2, (3, 17.6), ACCENT, 2.4)
        c.text(x - 0.4 if segment else x + 0.6, 19, "barrier", size=SMALL, colour=ACCENT)
        x += 1.6
    c.note(25, 21.8, "The next fiber is drawn at random, at each barrier, fence and atomic.")
    c.heading(26.4, "an array of the kernel")
    for left, width, text, fill in ((1, 12, "canary", ORANGE), (13, 24, "array", WHITE), (37, 12, "canary", ORANGE)):
        c.box(left, 28.2, width, 3, text, fill)
    c.note(25, 33, "A write outside of the array changes a canary.")
    c.heading(37, "shared memory")
    c.box(1, 38.8, 36, 3, "filled with a random byte before each block", GREY)
    c.box(37, 38.8, 12, 3, "canary", ORANGE)
