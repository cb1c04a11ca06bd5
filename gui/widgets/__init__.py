"""Small widgets that know nothing about runs or devices."""
