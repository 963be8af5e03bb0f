"""Predict a training on tasks that do not exist: real plans, a simulated clock.

Theory of operation:

    sizes, tasks -> Job -> layout, group, plans -> schedule -> clock -> Rehearsal
                    (those of a training)          (columns)   (times)   (report, trace)

`members` turns the plans into columns, one member after the other, or one plan into
those of all workers; `schedule` pairs the two ends of each message. `clock` plays a
step on them. What a member does next depends on its own earlier operations and on the
messages that it takes, so no list of events is needed: all members that can go on do
one operation each, as one operation of numpy. `timeline` makes the trace of the last
step; `rehearse` and `recommend` are what a user calls. Bytes and messages are counted
in the plans and are exact; all times are predictions, and say so.
"""
