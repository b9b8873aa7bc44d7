"""What a comparison shows beyond its table: effects, what parts contribute, ablations."""
