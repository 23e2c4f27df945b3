"""Array algorithms on structure-of-arrays batches of events. Imports nothing of the other rooms."""
