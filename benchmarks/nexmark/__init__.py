"""Nexmark: queries with state over people who sell and bid at auctions, as every engine would have them written."""
