"""What every coordinator, optimizer, port and topology must keep, each as one check."""
