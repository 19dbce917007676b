"""A folder a study: cells, analysis, drawing and claims, side by side."""
