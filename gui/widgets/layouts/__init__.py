"""How widgets are placed: rows that break, parts that can be dragged, heights that fit."""
