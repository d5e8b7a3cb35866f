"""The atoms: drafters, verifiers, datastores and model adapters, and the contract between them."""
