"""What other ecosystems read of a run: a module each, from the run to their files, without the truth.

Numbers go with what they were averaged over, and a number that is not there is left out, never NaN.
"""
