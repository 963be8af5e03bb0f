"""The state of a training at one step, taken by its members as shards, for any sink."""
