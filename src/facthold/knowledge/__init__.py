"""A model of your own facts: asked, edited and looked into."""
