"""An exchange carried out in one thread, held at each message."""
