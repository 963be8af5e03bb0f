"""A package, as only of such a one pytest keeps fixtures for all tests."""
