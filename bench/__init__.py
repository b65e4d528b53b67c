"""Speed as ratios, measured in one process; `make bench` prints them."""
