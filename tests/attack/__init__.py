"""What an attacker would try: queries, models, files and visitors that mean harm."""
