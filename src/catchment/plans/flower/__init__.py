"""A plan file as a Flower app: nobody writes Python to federate a folder of sensor files."""
