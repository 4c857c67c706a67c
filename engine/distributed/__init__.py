"""One model over several ranks: rank 0 leads, the others repeat its loop on their share."""
