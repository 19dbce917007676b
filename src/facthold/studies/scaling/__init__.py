"""How a memory fills up: schemes on heavy-tailed data, and the laws of the lecture's last part."""
