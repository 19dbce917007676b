"""What every module may use, and what needs no other module of ours."""
