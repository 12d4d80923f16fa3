"""What a search believes about configs that nobody has measured."""
