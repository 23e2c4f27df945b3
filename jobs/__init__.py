"""What runs on a worker node: readers, pipelines, writers, the manifest and the job entry point."""
