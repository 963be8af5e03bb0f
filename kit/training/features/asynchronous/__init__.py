"""Workers that go at their own pace, and the servers that serve them."""
