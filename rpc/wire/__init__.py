"""What is sent and read: messages, arrays, JSON and TOML that somebody else wrote."""
