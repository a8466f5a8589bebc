"""An exchange and its clients under everything at once, for an hour: nothing may grow."""
