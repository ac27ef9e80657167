"""Starts, watches and stops the driver processes of registered jobs on this machine."""
