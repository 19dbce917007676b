"""What is predicted: bounds, limits, noise laws, reduced equations. Imports no model."""
