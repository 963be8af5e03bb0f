"""Send less: gradients are made small before they meet, and sums are decoded after.

Whatever travels can be summed, so every topology carries it by its own plan, in the
same order: all topologies without an order of their own give the same bits here too.

    gradient + what was not sent before
        |  Compressor.exchange, in one stage or several
        v
    stages, a small buffer ---- the topology's plan ----> their sums, at every worker
        ^                                                    |
        +--- the next stage, if there is one ----------------+
                                                             v
                              the mean gradient, the same at every worker; each updates
                              all parameters by itself
"""
