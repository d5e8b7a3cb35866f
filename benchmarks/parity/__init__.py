"""Our outputs against public implementations on the same inputs."""
