"""An exchange held at each message: its recording, and how it is shown."""
