"""The toolbox: a folder of data tools for the shell, made for the system's python3 and never for our own."""
