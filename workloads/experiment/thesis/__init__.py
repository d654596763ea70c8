"""The figures and tables of the thesis' chapter 8, each measured again."""
