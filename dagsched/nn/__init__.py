"""Neural networks over workflow graphs (torch, torch-geometric)."""
