"""What one experiment of the evaluation is: a question, figures, a picture and a conclusion."""
