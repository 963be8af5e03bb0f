"""How two tasks prove who they are before they talk."""
