"""Training of draft heads: the target's own answers as data, the published objectives, the published layout."""
