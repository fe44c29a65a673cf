"""Words in shared memory: a process waits for them and is woken."""

import mmap
import os
import time

import numpy as np

from crystalrl.suites.signals import Word


def test_a_word_that_does_not_change_is_waited_for_until_the_time_is_over() -> None:
    word, begun = Word(np.zeros(3, np.int32), 1), time.monotonic()
    assert not word.wait(0, 0.05)
    assert time.monotonic() - begun >= 0.05
    word.set(7)
    assert word.words.tolist() == [0, 7, 0]
    assert word.wait(0, 0.0)


def test_another_process_wakes_one_that_waits_and_shows_what_it_wrote_before() -> None:
    memory = mmap.mmap(-1, 4096)
    words, data = np.frombuffer(memory, np.int32, 2), np.frombuffer(memory, np.float64, 100, 64)
    there, back = Word(words, 0), Word(words, 1)
    child = os.fork()
    if child == 0:
        for number in range(200):
            there.wait(number, 20.0)
            data[:] = number + 1
            back.set(number + 1)
        os._exit(0)
    begun = time.process_time()
    for number in range(200):
        there.set(number + 1)
        assert back.wait(number, 20.0)
        assert (data == number + 1).all()
    assert time.process_time() - begun < 1.0  # it slept
    assert os.waitpid(child, 0)[1] == 0
