"""`make demo`: messages become runs, through a crash, with nothing lost and nothing doubled. It checks, and says so."""
