"""How the second opinion is trained: pairs made by rules and from open sets, and the network."""
