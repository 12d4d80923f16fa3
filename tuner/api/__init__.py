"""What the commands do, as functions with typed results: `import int8tune as it` has all of them."""
