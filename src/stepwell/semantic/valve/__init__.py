"""The safety valve: what makes two texts that look alike ask for different answers.

Pure. One module per kind of difference, English and Chinese; `valve.py` asks them in turn.
"""
