"""A campaign from its file to its report: spec, dataset, ledger, backends, monitor, command line."""
