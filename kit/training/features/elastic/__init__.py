"""Trainings that go on, with the same bits, when a task is lost."""
